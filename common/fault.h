/* fault.h - named points where a test can make the next step fail.
 *
 * With the environment variable FAULT=n the n-th passage of any point answers
 * true (counted over the whole process, from 1); FAULT_NAME=x counts only the
 * passages of point x.  In release builds FAULT_POINT is the constant false. */
#ifndef BERTH_COMMON_FAULT_H
#define BERTH_COMMON_FAULT_H

#include <stdbool.h>

#ifdef BERTH_FAULTS
bool fault_point(const char *name);
#define FAULT_POINT(name) fault_point(name)
#else
#define FAULT_POINT(name) false
#endif

#endif
