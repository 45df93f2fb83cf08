// Package pve is a client for the HTTP API of Proxmox VE 8.0 to 9.x: authentication, requests, typed errors and tasks.
//
// It knows PVE's API and nothing else: no Terraform, no idea of what a whole VM is. One file per API area holds the
// calls; client_chain.go puts together what every request passes through.
//
// Two rules shape the package. A write is never repeated unless the server proved that nothing happened: a create
// whose answer was lost is reported as Ambiguous, and the caller looks. And no secret leaves it: neither an error nor a
// trace line carries a password, a token, a ticket or the value of a parameter that is one.
package pve
