/* fault.h - named points between two steps, where a test can make a program
 * fail.
 *
 * FAULT=n chooses the n-th passage of any point, counted over the whole process
 * from 1; FAULT_NAME=x counts only the passages of point x.  FAULT_DO says what
 * happens there:
 *   fail   FAULT_POINT answers true (the default)
 *   kill   the process kills itself with SIGKILL
 *   stop   it stops itself with SIGSTOP and goes on when continued
 * With FAULT_LIST=FILE every point passed appends its name to FILE, once.  In
 * release builds FAULT_POINT is the constant false and FAULT_STEP is nothing.
 */
#ifndef BERTH_COMMON_FAULT_H
#define BERTH_COMMON_FAULT_H

#include <stdbool.h>

#ifdef BERTH_FAULTS
bool fault_point(const char *name);
/* A step that can fail: true when it is to. */
#define FAULT_POINT(name) fault_point(name)
/* A place between two steps that cannot: for kill and stop alone. */
#define FAULT_STEP(name) ((void)fault_point(name))
#else
#define FAULT_POINT(name) false
#define FAULT_STEP(name) ((void)0)
#endif

#endif
