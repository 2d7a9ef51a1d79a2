// Package docs holds the tests of what the documentation says: every Corefile in it starts, every example answers as stated,
// every link leads somewhere.
package docs
