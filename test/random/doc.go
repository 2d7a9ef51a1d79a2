// Package random does what users do in a fleet (test/fleettest), in random order, while processes are killed and started again.
// Its parts: a Script of operations, which follows from a seed; the oracle, which computes from the users' objects what every
// name must answer; and the check, which compares that with the answers, the conditions and what is left over. test/chaos uses
// them too.
//
// With CLUSTERSET_LONG=1 the runs are longer, with a different seed each time.
package random
