// Package objects reads objects from API servers for the interactive commands (`clusterset status`, `explain`, `drain`, `doctor`),
// in the version that is served, and turns errors into one line that says what to do.
//
// It is the thin edge of the packages view, explain and doctor, which are pure.
package objects
