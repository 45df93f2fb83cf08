// Package vm is the resource proxmox_vm: the create, read, update, delete and import that hand over to package service.
// Its schema, its model, its plan and its validation are the packages below.
package vm
