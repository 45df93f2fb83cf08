// Package vmschema is the schema of proxmox_vm: what each attribute is called, what it accepts and what the
// documentation says of it. The use of the values is package vm's.
package vmschema
