// Package random tests a fleet (test/fleettest) with random user operations, while processes are killed and started again. A
// Script of operations follows from a seed. The oracle computes from the users' objects what every name must answer. The check
// compares that with the answers and with what is left over. test/chaos uses these parts too.
//
// With CLUSTERSET_LONG=1, the runs are longer and use a different seed each time.
package random
