package vm

import "testing"

// TestSurvivesHeldVolume: a volume is held by the VM whose id it carries, whose description says so, and by no other.
func TestSurvivesHeldVolume(t *testing.T) {
	mark := HolderDescription("the database")
	for name, c := range map[string]struct {
		config map[string]string
		want   string
	}{
		"held":              {map[string]string{"description": mark + "\n", "scsi0": "local-zfs:vm-100-disk-0,size=1G"}, "local-zfs:vm-100-disk-0"},
		"without a word":    {map[string]string{"description": HolderDescription(""), "scsi0": "local:100/vm-100-disk-0.qcow2"}, "local:100/vm-100-disk-0.qcow2"},
		"another's":         {map[string]string{"description": mark, "scsi0": "local-zfs:vm-101-disk-0,size=1G"}, ""},
		"in another slot":   {map[string]string{"description": mark, "scsi1": "local-zfs:vm-100-disk-0,size=1G"}, ""},
		"any other VM":      {map[string]string{"description": "the database", "scsi0": "local-zfs:vm-100-disk-0,size=1G"}, ""},
		"named in the text": {map[string]string{"description": "not: " + mark, "scsi0": "local-zfs:vm-100-disk-0,size=1G"}, ""},
		"a template":        {map[string]string{"description": mark, "template": "1", "scsi0": "local-zfs:base-100-disk-0,size=1G"}, ""},
	} {
		if got := HeldVolume(100, c.config); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if text, ok := HolderText(mark + "\n"); !ok || text != "the database" {
		t.Errorf("the text is %q, %t", text, ok)
	}
	if text, ok := HolderText("the database"); ok {
		t.Errorf("a description without the mark has text %q", text)
	}
}
