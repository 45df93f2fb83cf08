// Package kit is the common base of resources, data sources and actions: the session of a configured provider, the one
// converter from errors to diagnostics (Diagnose), timeouts, validators of PVE's names, and attributes of data sources.
package kit
