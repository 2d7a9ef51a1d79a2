// Package hold decides what the importer keeps when the hub has less than before. It distinguishes un-exported services from
// lost records (Guard, Hold, Departures), and reconstructs lost records from the local objects (Retain), so that everything
// else continues.
package hold
