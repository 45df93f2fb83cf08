package schema

import (
	"strings"
	"testing"
)

// TestVersions: every difference between the releases, at the last release that lacks it and at the first that has it.
func TestVersions(t *testing.T) {
	const create = "POST /nodes/pve1/qemu"
	sets := map[string]*Set{}
	for _, version := range Versions() {
		sets[version] = LoadVersion(version)
	}
	for _, row := range []struct {
		request, key, value string
		good                string // the releases that take it
	}{
		{create, "ciupgrade", "1", "8.0 8.2 8.4 9.0 9.2"},
		{create, "memory", "512", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{create, "memory", "current=512", "8.2 8.4 9.0 9.2"},
		{create, "vga", "std,clipboard=vnc", "8.2 8.4 9.0 9.2"},
		{create, "scsi3", "local:1,vendor=abc", "8.2 8.4 9.0 9.2"},
		{create, "scsi3", "local:1,ssd=1", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{create, "machine", "q35,viommu=virtio", "8.2 8.4 9.0 9.2"},
		{create, "machine", "q35,enable-s3=1", "8.4 9.0 9.2"},
		{create, "machine", "q35,aw-bits=48", "9.0 9.2"},
		{create, "amd-sev", "std", "8.4 9.0 9.2"},
		{create, "import-working-storage", "local", "8.4 9.0 9.2"},
		{create, "virtiofs0", "share", "8.4 9.0 9.2"},
		{create, "ha-managed", "1", "9.2"},
		{create, "allow-ksm", "0", "9.2"},
		{create, "intel-tdx", "tdx,attestation=1", "9.2"},
		{create, "efidisk0", "local:1,efitype=4m,ms-cert=2023", "8.4 9.2"},
		{create, "hostpci0", "mapping=gpu,driver=keep", "9.2"},
		{create, "cpu", "host,guest-phys-bits=46", "9.0 9.2"},
		{create, "cpu", "host,level=30", "9.2"},
		{create, "cpu", "host,flags=+nested-virt", "9.2"},
		{create, "cpu", "host,flags=+pcid", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{create, "cpu", "host,phys-bits=46", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{create, "net0", "virtio,host-tunnel=1", "9.2"},
		{create, "agent", "1,freeze-fs=0", "9.2"},
		{create, "agent", "1,freeze-fs-on-backup=0", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{"PUT /nodes/pve1/qemu/100/config", "allow-ksm", "0", "9.2"},
		{"PUT /nodes/pve1/qemu/100/config", "ha-managed", "1", ""},
		{"PUT /nodes/pve1/qemu/100/config", "virtiofs9", "share", "8.4 9.0 9.2"},
		{"POST /nodes/pve1/qemu/100/status/stop", "overrule-shutdown", "1", "8.2 8.4 9.0 9.2"},
		{"POST /nodes/pve1/storage/local/download-url", "content", "import", "8.4 9.0 9.2"},
		{"POST /nodes/pve1/storage/local/upload", "content", "import", "8.4 9.0 9.2"},
		{"POST /nodes/pve1/storage/local/upload", "content", "iso", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{"PUT /pools", "allow-move", "1", "8.2 8.4 9.0 9.2"},
		{"POST /cluster/ha/resources", "group", "ab", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{"GET /cluster/ha/groups", "", "", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{"GET /cluster/ha/rules", "", "", "9.0 9.2"},
		{"POST /cluster/ha/rules", "type", "node-affinity", "9.0 9.2"},
		{"GET /cluster/sdn/fabrics", "", "", "9.0 9.2"},
		{"POST /access/vncticket", "", "", "8.4 9.2"},
		{"PUT /cluster/options", "crs", "ha=static", "7.4 8.0 8.2 8.4 9.0 9.2"},
		{"PUT /cluster/options", "crs", "ha=dynamic,ha-auto-rebalance=1,ha-auto-rebalance-margin=20", "9.2"},
	} {
		var good []string
		for _, version := range Versions() {
			set := sets[version]
			method, path, _ := strings.Cut(row.request, " ")
			route, vars, known := set.Route(method, path)
			if !known {
				continue
			}
			params := map[string]string{}
			if row.key != "" {
				params[row.key] = row.value
			}
			if _, bad := route.Validate(params, vars)[row.key]; !bad {
				good = append(good, version)
			}
		}
		if got := strings.Join(good, " "); got != row.good {
			t.Errorf("%s %s=%s is taken by %q, want %q", row.request, row.key, row.value, got, row.good)
		}
	}
}

// TestAgentPermissions: 9.0 split VM.Monitor.
func TestAgentPermissions(t *testing.T) {
	for _, row := range []struct{ request, old, since9 string }{
		{"GET network-get-interfaces", "VM.Monitor", "VM.GuestAgent.Audit VM.GuestAgent.Unrestricted"},
		{"POST exec", "VM.Monitor", "VM.GuestAgent.Unrestricted"},
		{"GET file-read", "VM.Monitor", "VM.GuestAgent.FileRead VM.GuestAgent.Unrestricted"},
		{"POST fstrim", "VM.Monitor", "VM.GuestAgent.FileSystemMgmt VM.GuestAgent.Unrestricted"},
		{"POST shutdown", "VM.Monitor", "VM.PowerMgmt VM.GuestAgent.Unrestricted"},
		{"POST fsfreeze-status", "VM.Monitor", "VM.GuestAgent.Audit VM.GuestAgent.FileSystemMgmt VM.GuestAgent.Unrestricted"},
		{"POST ", "VM.Monitor", "VM.GuestAgent.Unrestricted"},
	} {
		for _, version := range Versions() {
			want := row.old
			if version >= "9" {
				want = row.since9
			}
			method, command, _ := strings.Cut(row.request, " ")
			route, _, _ := LoadVersion(version).Route(method, "/nodes/pve1/qemu/100/agent/"+command)
			if got := strings.Join(route.Permissions.Check.Privs, " "); got != want {
				t.Errorf("%s: %s needs %q, want %q", version, row.request, got, want)
			}
		}
	}
}

// TestMonitorPermission: 9.0 took VM.Monitor away from QEMU's monitor as well.
func TestMonitorPermission(t *testing.T) {
	for _, version := range Versions() {
		want := "VM.Monitor"
		if version >= "9" {
			want = "Sys.Audit Sys.Modify"
		}
		route, _, _ := LoadVersion(version).Route("POST", "/nodes/pve1/qemu/100/monitor")
		if got := strings.Join(route.Permissions.Check.Privs, " "); got != want {
			t.Errorf("%s: the monitor needs %q, want %q", version, got, want)
		}
	}
}

// TestUnknownVersion: a set of rules that does not exist is a mistake of the program.
func TestUnknownVersion(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("rules of version 6.4 were made up")
		}
	}()
	LoadVersion("6.4")
}

// TestPrivilegesOfReleases: a role may have the privileges that its release knows.
func TestPrivilegesOfReleases(t *testing.T) {
	for version, privileges := range map[string]map[string]bool{
		"8.4": {"VM.Monitor": true, "VM.GuestAgent.Audit": false, "VM.Replicate": false},
		"9.0": {"VM.Monitor": false, "VM.GuestAgent.Audit": true, "VM.Replicate": true},
	} {
		route, vars, _ := LoadVersion(version).Route("POST", "/access/roles")
		for privilege, known := range privileges {
			found := route.Validate(map[string]string{"roleid": "ops", "privs": privilege}, vars)
			if (len(found) == 0) != known {
				t.Errorf("%s on %s: %v", privilege, version, found)
			}
		}
	}
}
