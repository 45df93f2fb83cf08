package volumeuse

import (
	"strings"
	"testing"
)

// TestEntriesThatGiveNoVolume: only a change of which nothing can be a volume of another guest may be written late without being
// waited for.
func TestEntriesThatGiveNoVolume(t *testing.T) {
	for change, want := range map[string]bool{
		"-cores 4":                          true,
		"-cores 4 -delete balloon,scsi1":    true,
		"-description web server -memory 2": true,
		"-revert scsi1":                     true,
		"-net0 virtio=BC:24:11:00:00:01,bridge=vmbr0 -tags a;b": true,
		"resize --disk scsi0 --size 10G":                        true,
		"-ide2 nfs:cloudinit,media=cdrom":                       true,
		"-scsi1 local-zfs:32,discard=on":                        true,
		"-scsi1 file=nfs:32.5":                                  true,
		"-ide2 none,media=cdrom":                                true,

		"-scsi1 local-zfs:vm-300-disk-0":                        false,
		"-scsi1 file=local-zfs:vm-300-disk-0,size=1G":           false,
		"-scsi1 /dev/zvol/rpool/data/vm-300-disk-0":             false,
		"-cores 4 -scsi1 local-zfs:vm-300-disk-0":               false,
		"-description a -scsi1 b -scsi1 nfs:300/vm-300-d.qcow2": false,
		"-ide2 nfs:300/vm-300-cloudinit.qcow2":                  false,
		"-unused0 local-zfs:vm-300-disk-0":                      false,
		"-efidisk0 local-zfs:vm-300-disk-0":                     false,
		"-tpmstate0 local-zfs:vm-300-disk-0":                    false,
		"-args -drive file=/dev/zvol/rpool/vm-300-disk-0":       false,
		"-hookscript nfs:snippets/a.pl":                         false,
		"-cicustom user=nfs:snippets/a.yaml":                    false,
		"-serial0 /dev/mapper/a":                                false,
		"-template 1":                                           false,
		"-vmstate nfs:vm-300-state-a":                           false,
		"-an-option-of-a-later-release 1":                       false,
		"-scsi1":                                                false,
		"":                                                      false,
		"something else":                                        false,
		"-description " + strings.Repeat("x", wholeEntry):       false, // what follows may be cut off
	} {
		if got := givesNoVolume("update VM 302: " + change); got != want {
			t.Errorf("%.60q gives no volume: %v, want %v", change, got, want)
		}
	}
	for _, other := range []string{"update CT 302: -cores 4", "snapshot VM 302: a", "update VM 302"} {
		if givesNoVolume(other) {
			t.Errorf("%q gives no volume", other)
		}
	}
}
