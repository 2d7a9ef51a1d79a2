// Package door is where what other clusters wrote comes in. It bounds and sanitizes each record of the hub once, and keeps what the merge and
// the imported objects need of it in small values that never change: a pointer to one is a version.
package door
