// Package effective decides which records of a service count: those on the hub, and for parts of an import that the hub has no record of, those
// that they were imported from last. That a record is missing says nothing by itself (C41 and C42 of docs/spec/control-plane.md).
package effective
