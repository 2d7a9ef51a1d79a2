// Package live keeps a console up to date: it watches the hub's records, asks for its heartbeats, and reads the members.
package live
