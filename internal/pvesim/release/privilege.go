package release

import (
	"slices"
	"strings"
	"sync"
)

// privilege is a privilege that not every release has: since a fact, or until one.
type privilege struct {
	name  string
	since Fact
	until bool
}

// changing are the privileges that came or went with a release.
func changing() []privilege {
	agent := Fact{Package: "pve-access-control", Since: "9.0.2",
		Source: "PVE/AccessControl.pm, VM.GuestAgent.* (922f710) for VM.Monitor (0706945)"}
	access := Fact{Package: "pve-access-control", Since: "8.1.2",
		Source: "PVE/AccessControl.pm, Sys.AccessNetwork (36c1814)"}
	replicate := Fact{Package: "pve-access-control", Since: "9.0.3",
		Source: "PVE/AccessControl.pm, VM.Replicate (5f7544f)"}
	return []privilege{
		{"Sys.AccessNetwork", access, false}, {"VM.GuestAgent.Audit", agent, false},
		{"VM.GuestAgent.FileRead", agent, false}, {"VM.GuestAgent.FileSystemMgmt", agent, false},
		{"VM.GuestAgent.FileWrite", agent, false}, {"VM.GuestAgent.Unrestricted", agent, false},
		{"VM.Monitor", agent, true}, {"VM.Replicate", replicate, false},
	}
}

// Privileges are the privileges that exist in a release, in order (pve-access-control PVE/AccessControl.pm,
// $privgroups).
func Privileges(version string) []string {
	return slices.Clone(privilegesKnown(version))
}

func privilegesKnown(version string) []string {
	if all, ok := privileges()[version]; ok {
		return all
	}
	return privileges()["8.0"] // as Package does
}

// privileges are computed once: they are asked for with each request.
var privileges = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for version := range releases {
		all[version] = privilegesIn(version)
	}
	return all
})

func privilegesIn(version string) []string {
	all := strings.Fields(`Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit
		Group.Allocate Mapping.Audit Mapping.Modify Mapping.Use Permissions.Modify Pool.Allocate Pool.Audit
		Realm.Allocate Realm.AllocateUser SDN.Allocate SDN.Audit SDN.Use Sys.Audit Sys.Console
		Sys.Incoming Sys.Modify Sys.PowerMgmt Sys.Syslog User.Modify VM.Allocate VM.Audit VM.Backup VM.Clone
		VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory
		VM.Config.Network VM.Config.Options VM.Console VM.Migrate VM.PowerMgmt VM.Snapshot VM.Snapshot.Rollback`)
	for _, p := range changing() {
		if p.since.Has(version) != p.until {
			all = append(all, p.name)
		}
	}
	slices.Sort(all)
	return all
}

// HasPrivilege reports whether a privilege exists in a release.
func HasPrivilege(version, name string) bool {
	_, found := slices.BinarySearch(privilegesKnown(version), name)
	return found
}
