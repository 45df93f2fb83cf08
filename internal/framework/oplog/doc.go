// Package oplog keeps the log of an operation, which is one call of Terraform: a create, a refresh, an action. The
// context carries it. Code that sends a request, does a step or waits records that. A line at the end says where the
// time went; lines in between say what the operation waits for. The package knows neither Terraform nor PVE, and
// imports only the standard library. All functions may be called without an operation: then they record nothing.
//
// A listing or a login that several operations share counts for the operation that fetches it; the others wait for it
// (Shared).
package oplog
