// Package connectivity tests a cluster set as its users use it: pods in every cluster ask for the names of what every cluster exports, and
// connect to what the names lead to. It is `clusterset test`.
//
// objects.go says what is created, client.go is what the pods run, and verdict.go makes a Report of what was seen: all three are pure or
// stand alone. run.go creates, waits, reads and cleans up.
package connectivity
