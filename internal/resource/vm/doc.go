// Package vm is the resource proxmox_vm: the create, read, update, delete and import that hand over to package service.
//
// The packages below are its parts. A configuration is checked by validation alone, and its attributes are in vmschema.
// model holds it as values. planning makes the plan: it asks the server, change derives the consequences, source looks
// after the source of a copy, and run remembers the other plans of this process.
package vm
