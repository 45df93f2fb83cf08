// Package lab holds the acceptance tests that need nothing but a cluster and its API: a table of cases, what each asks of the
// cluster, and what runs them on any cluster, simulated or real. It knows of no simulator and shares no code with the provider:
// it is told where the cluster is, as a user tells the provider, and asks it with a client of its own.
package lab
