package vm

import "testing"

func TestResized(t *testing.T) {
	for drive, want := range map[string]string{
		"a:vm-1-disk-0,size=1G":                          "a:vm-1-disk-0,size=2560M",
		"a:vm-1-disk-0,discard=on,size=1G,ssd=1":         "a:vm-1-disk-0,discard=on,size=2560M,ssd=1",
		"a:base-2-disk-0/vm-1-disk-0,iothread=1,size=1G": "a:base-2-disk-0/vm-1-disk-0,iothread=1,size=2560M",
		"a:vm-1-disk-0":                                  "a:vm-1-disk-0",
	} {
		if got := Resized(drive, 2560<<20); got != want {
			t.Errorf("%s becomes %s, want %s", drive, got, want)
		}
	}
}
