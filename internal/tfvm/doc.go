// Package tfvm is the resource proxmox_vm: its schema, the conversion between Terraform's values and vm.Spec, and the
// create, read, update, delete and import that hand over to package provision.
package tfvm
