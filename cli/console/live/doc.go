// Package live keeps a console up to date: it watches the hub's records, asks for its heartbeats, reads the members, and asks each what `clusterset doctor` asks.
package live
