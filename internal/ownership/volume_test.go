package ownership

import (
	"strings"
	"testing"
	"time"
)

// aVolume is a volume that is left over for certain.
func aVolume() Volume {
	return Volume{ID: "local-lvm:vm-400-disk-0", VMID: theVM, Storage: "local-lvm", OfPVE: true, Dated: true, Age: time.Hour}
}

// volumeRow is a fact that stands in the way of freeing a volume. Of several the first in the table is the reason.
type volumeRow struct {
	name    string
	happens func(*Volume)
	owner   Owner
	says    string
}

func volumeRows() []volumeRow {
	return []volumeRow{
		{"a guest uses it", func(v *Volume) { v.User = "VM 600 on node pve1 (scsi0)" }, ThirdParty, "used by VM 600"},
		{"a guest may use it", func(v *Volume) { v.Likeness = "VM 601 on node pve1 (scsi0)" }, Unknown, "VM 601"},
		{"a guest could not be read", func(v *Volume) { v.Unread = "VM 602 is locked" }, Unknown, "could not be looked at: VM 602 is locked"},
		{"guests are hidden", func(v *Volume) { v.Unseen = "NoAccess on /vms/603" }, Unknown, "cannot be told: NoAccess on /vms/603"},
		{"a linked clone", func(v *Volume) { v.Clones = []string{"x", "y"} }, Unknown, "linked clones are based on the volume: x, y"},
		{"a name that PVE does not give", func(v *Volume) { v.OfPVE = false }, Unknown, "PVE gives no volume the name"},
		{"a shared storage", func(v *Volume) { v.Shared = true }, Unknown, "may belong to another cluster"},
		{"no time", func(v *Volume) { v.Dated = false }, Unowned, "does not say when it was made"},
		{"made a moment ago", func(v *Volume) { v.Age = FreshVolume - 1 }, Unknown, "so new that its maker"},
		{"made after now, by the server's clock", func(v *Volume) { v.Age = -time.Minute }, Unknown, "so new that its maker"},
	}
}

// TestOwnershipOfVolumes: a volume is left over for certain only if nothing stands in the way. Each fact alone and each
// two together keep it from that, on an exclusive storage too; the first fact of the table is the reason.
func TestOwnershipOfVolumes(t *testing.T) {
	certain := volumeRow{owner: Unowned, says: "no guest has the id 400, and no guest uses the volume"}
	rows, all := 0, volumeRows()
	for _, exclusive := range []bool{false, true} {
		judge := func(facts ...volumeRow) {
			t.Helper()
			v, want, names := aVolume(), certain, []string{}
			v.Exclusive = exclusive
			for _, fact := range facts {
				fact.happens(&v)
				names = append(names, fact.name)
				isNone := exclusive && fact.name == "a shared storage" // no other cluster uses it
				if want.happens == nil && !isNone {
					want = fact
				}
			}
			rows++
			got := JudgeVolume(v)
			if got.Owner != want.owner || got.Whole != (want.happens == nil) || !strings.Contains(got.Reason, want.says) {
				t.Errorf("exclusive %t, %v: %+v", exclusive, names, got)
			}
		}
		judge()
		for i, one := range all {
			judge(one)
			for _, other := range all[i+1:] {
				judge(one, other)
			}
		}
	}
	t.Logf("%d rows", rows)
}
