package state

import (
	"slices"
	"strings"
)

// defaultRoles are the built-in roles of access-control (AccessControl.pm) that anybody is likely to ask for, and two
// of our own: what a Terraform provider needs, and the same without Datastore.Allocate.
func defaultRoles() map[string][]string {
	vmConfig := []string{
		"VM.Config.CDROM", "VM.Config.CPU", "VM.Config.Cloudinit", "VM.Config.Disk", "VM.Config.HWType",
		"VM.Config.Memory", "VM.Config.Network", "VM.Config.Options",
	}
	vmUser := []string{"VM.Audit", "VM.Backup", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.PowerMgmt"}
	vmAdmin := slices.Concat(vmConfig, []string{
		"VM.Allocate", "VM.Audit", "VM.Backup", "VM.Clone", "VM.Console", "VM.GuestAgent.Audit", "VM.GuestAgent.FileRead",
		"VM.GuestAgent.FileSystemMgmt", "VM.GuestAgent.FileWrite", "VM.GuestAgent.Unrestricted", "VM.Migrate", "VM.Monitor",
		"VM.PowerMgmt", "VM.Replicate", "VM.Snapshot", "VM.Snapshot.Rollback",
	})
	datastore := []string{"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"}
	mapping := []string{"Mapping.Audit", "Mapping.Modify", "Mapping.Use"}
	pool := []string{"Pool.Allocate", "Pool.Audit"}
	sdn := []string{"SDN.Allocate", "SDN.Audit", "SDN.Use"}
	sys := []string{"Sys.AccessNetwork", "Sys.Audit", "Sys.Console", "Sys.Incoming", "Sys.Modify", "Sys.PowerMgmt", "Sys.Syslog"}
	user := []string{"Group.Allocate", "Permissions.Modify", "Realm.Allocate", "Realm.AllocateUser", "User.Modify"}
	userAdmin := []string{"Group.Allocate", "Realm.AllocateUser", "User.Modify"}
	provider := slices.Concat(vmConfig, []string{
		"VM.Allocate", "VM.Audit", "VM.Clone", "VM.GuestAgent.Audit", "VM.Migrate", "VM.Monitor", "VM.PowerMgmt",
		"VM.Snapshot", "VM.Snapshot.Rollback", "Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit",
		"Mapping.Use", "Pool.Allocate", "Pool.Audit", "SDN.Audit", "SDN.Use", "Sys.AccessNetwork", "Sys.Audit",
	})
	return map[string][]string{
		"Administrator": slices.Concat(vmAdmin, datastore, mapping, pool, sdn, sys, user),
		"PVEAdmin": slices.Concat(vmAdmin, datastore, pool, sdn, userAdmin,
			[]string{"Mapping.Audit", "Mapping.Use", "Sys.Audit", "Sys.Console", "Sys.Syslog"}),
		"PVEMappingAdmin":   mapping,
		"PVEMappingUser":    {"Mapping.Audit", "Mapping.Use"},
		"PVESDNAdmin":       sdn,
		"PVESysAdmin":       {"Sys.Audit", "Sys.Console", "Sys.Syslog"},
		"PVETemplateUser":   {"VM.Audit", "VM.Clone"},
		"PVEUserAdmin":      userAdmin,
		"PVEAuditor":        {"Datastore.Audit", "Mapping.Audit", "Pool.Audit", "SDN.Audit", "Sys.Audit", "VM.Audit", "VM.GuestAgent.Audit"},
		"PVEDatastoreAdmin": datastore,
		"PVEDatastoreUser":  {"Datastore.AllocateSpace", "Datastore.Audit"},
		"PVEPoolAdmin":      pool,
		"PVEPoolUser":       {"Pool.Audit"},
		"PVESDNUser":        {"SDN.Audit", "SDN.Use"},
		"PVEVMAdmin":        vmAdmin,
		"PVEVMUser":         vmUser,
		"NoAccess":          {},
		"TerraformProvider": append([]string{"Datastore.Allocate"}, provider...),
		"TerraformLite":     provider,
	}
}

// IsSpecial tells the roles that PVE makes itself.
func IsSpecial(role string) bool {
	return strings.HasPrefix(role, "PVE") || role == "Administrator" || role == "NoAccess"
}
