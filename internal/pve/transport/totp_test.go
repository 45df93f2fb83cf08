package transport

import "testing"

// TestTOTPVectors: the vectors of RFC 6238, appendix B, for SHA-1; theirs have eight digits.
func TestTOTPVectors(t *testing.T) {
	for unix, want := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		if got := totpCode([]byte("12345678901234567890"), unix/totpPeriod); got != want[2:] {
			t.Errorf("at %d: %s, want %s", unix, got, want[2:])
		}
	}
}
