package property

import (
	"testing"
)

func TestSizes(t *testing.T) {
	for _, v := range []struct {
		text, printed string
		bytes         int64
	}{
		{"32G", "32G", 32 << 30}, {"10.5G", "10752M", 10752 << 20}, {"1024G", "1T", 1 << 40}, {"528K", "528K", 528 << 10},
		{"4194304", "4M", 4 << 20}, {"100", "100", 100}, {"2GiB", "2G", 2 << 30}, {"0.5K", "512", 512}, {"0T", "0", 0},
		{"2048T", "2048T", 2048 << 40},
	} {
		bytes, err := ParseSize(v.text)
		if err != nil || bytes != v.bytes || FormatSize(bytes) != v.printed {
			t.Errorf("%q: %d, %v, printed %q; want %d, %q", v.text, bytes, err, FormatSize(bytes), v.bytes, v.printed)
		}
	}
	for _, text := range []string{"", "G", "iB", "10iB", "-1G", "+1G", "1.G", ".5G", "1,5G", "1 G", "10g", "0.3", "0.1K", "9999999999T",
		"1e3"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q was read as %d", text, n)
		}
	}
}
