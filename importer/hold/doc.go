// Package hold decides what the importer keeps when the hub has less than before. It tells what was un-exported from what got
// lost (Guard, Hold, Departures), and makes up records of what got lost from the objects that are here (Retain), so that
// everything else goes on.
package hold
