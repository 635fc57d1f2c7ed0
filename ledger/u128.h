/* u128.h - the unsigned 128-bit integer of gcc and clang, for products of two
 * 64-bit numbers in price.c and split.c. Private to ledger. */
#ifndef BERTH_LEDGER_U128_H
#define BERTH_LEDGER_U128_H

__extension__ typedef unsigned __int128 u128;

#endif
