package diskimport

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// TestDocumented: the page of the documentation has the table, word for word.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), Markdown()) {
		t.Errorf("docs/design/sources.md does not have:\n%s", Markdown())
	}
}

func TestKindOf(t *testing.T) {
	for volume, want := range map[string]Kind{
		"local-zfs:vm-101-disk-0": Disk, "local:101/vm-101-disk-0.qcow2": Disk, "ceph:base-9000-disk-0": Disk,
		"local:import/debian.qcow2": File, "local:import/a.ova/disk.vmdk": Member, "local:import/a.ova": Appliance,
		"local:import/a.ovf":   Appliance,
		"local:iso/debian.img": ISO, "local:snippets/user.yaml": Other, "local:backup/vzdump-qemu-1.vma": Other,
		"local:vztmpl/a.tar.gz": Other,
		"local-lvm:backup":      Disk,
	} {
		if got := KindOf(volume, ""); got != want {
			t.Errorf("%s is %q, want %q", volume, got, want)
		}
	}
	if got := KindOf("host:ha-datacenter/store/import/web.vmdk", "esxi"); got != ESXi {
		t.Errorf("a disk on an ESXi host is %q", got)
	}
}

// TestEveryWayHasItsWords: each row that has no way for a third party has a refusal, a release has its source, and the
// rows are all kinds.
func TestEveryWayHasItsWords(t *testing.T) {
	rows := map[Kind]Row{}
	for _, r := range Rows() {
		rows[r.Kind] = r
		if KindOf(r.Example, map[Kind]string{ESXi: "esxi"}[r.Kind]) != r.Kind {
			t.Errorf("%s is no example of %s", r.Example, r.Kind)
		}
		if r.Since.Major != 0 && (len(r.Since.Manager) != 3 ||
			!regexp.MustCompile(`\([0-9a-f]{7}\)$`).MatchString(r.Since.Source)) {
			t.Errorf("%s: %+v", r.Kind, r.Since)
		}
		if r.Root == BySSH || r.API == ByPath || r.API == BySSH || r.SSH == ByPath {
			t.Errorf("%s: %s, %s, %s", r.Kind, r.Root, r.SSH, r.API)
		}
	}
	for _, kind := range []Kind{Disk, File, Member, ESXi, ISO, Appliance, Other} {
		if rows[kind].Kind == "" {
			t.Errorf("%s is in no row", kind)
		}
	}
	seen := map[string]bool{}
	for _, r := range Refusals() {
		if seen[r.When] || r.Summary == "" || !strings.Contains(r.Summary, "{volume}") || r.Detail == "" {
			t.Errorf("%+v", r)
		}
		seen[r.When] = true
	}
}

// TestDiskOfAVMElsewhere: a disk is imported on the node of its VM alone, unless the run may bring that there.
func TestDiskOfAVMElsewhere(t *testing.T) {
	all := pve.Resources{{Type: "qemu", VMID: 101, Node: "pve2"}}
	for name, c := range map[string]struct {
		named Named
		node  string
		is    bool
	}{
		"elsewhere":       {Named{Volume: "ceph:vm-101-disk-0"}, "pve1", true},
		"here":            {Named{Volume: "ceph:vm-101-disk-0"}, "pve2", false},
		"the run changes": {Named{Volume: "ceph:vm-101-disk-0", Loose: true}, "pve1", false},
		"of no guest":     {Named{Volume: "ceph:vm-102-disk-0"}, "pve1", false},
	} {
		if is := c.named.isElsewhere(all, c.node); is != c.is {
			t.Errorf("%s: %t", name, is)
		}
	}
}

// TestContentTwice: the command that makes a storage one of import content names each content type once.
func TestContentTwice(t *testing.T) {
	for has, want := range map[string]string{"": "iso,import", "iso,images": "iso,images,import",
		"import,iso": "import,iso"} {
		if got := withImport(pve.Resource{Content: has}); got != want {
			t.Errorf("%q becomes %q, want %q", has, got, want)
		}
	}
}
