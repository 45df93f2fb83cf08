package vm

import "testing"

func TestIsCommonCPU(t *testing.T) {
	for model, common := range map[string]bool{
		"host": true, "kvm64": true, "x86-64-v2-AES": true, "Skylake-Server-v5": true, "486": true,
		"custom-web": false, "EPYC-Genoa": false /* later than 8.0 */, "x86-64": false, "": false, "epyc": false,
	} {
		if IsCommonCPU(model) != common {
			t.Errorf("IsCommonCPU(%q) is not %t", model, common)
		}
	}
}
