package vm

import "testing"

// The vectors published with the description of the scheme.
func TestCryptSHA512KnownAnswers(t *testing.T) {
	for _, v := range []struct {
		password, salt string
		rounds         int
		want           string
	}{
		{"Hello world!", "saltstring", 5000,
			"svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
		{"Hello world!", "saltstringsaltst", 10000,
			"OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v."},
	} {
		if got := cryptSHA512([]byte(v.password), []byte(v.salt), v.rounds); got != v.want {
			t.Errorf("%q with %q, %d rounds:\ngot  %s\nwant %s", v.password, v.salt, v.rounds, got, v.want)
		}
	}
}
