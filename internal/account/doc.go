// Package account keeps the account of an operation: one thing that Terraform has asked for, a create, a refresh, an action. The
// context carries it, and whoever sends a request, does a step or waits notes it there, so that in the end one line says where the
// time went, and meanwhile another what is waited for. It knows neither Terraform nor PVE, and imports nothing but the standard
// library. Everything in it may be called without an operation: then nothing is noted.
//
// What several operations share - a listing, a login - is on the account of the one that fetches it; the others wait for it (Shared).
package account
