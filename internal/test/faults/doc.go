// Package faults fails each request of each operation, and interrupts it, and wants nothing lost and nothing left
// unnamed.
package faults
