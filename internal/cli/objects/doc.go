// Package objects reads what the commands of a person (`clusterset status`, `explain`, `drain`, `doctor`) look at from API
// servers, in whichever version is served there, and says in one line what is wrong where that fails.
//
// It is the thin edge of the packages status, explain and doctor, which decide on values alone.
package objects
