// Package docs tests what the documentation says: every Corefile in it starts, every example answers as shown, and every link has a
// target.
package docs
