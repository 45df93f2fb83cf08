package cloudinit

import "testing"

// Vectors published with the description of the scheme, and one of crypt(3) for the empty password.
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
		{"a very much longer text to encrypt.  This one even stretches over morethan one line.", "anotherlongsalts", 1400,
			"POfYwTEok97VWcjxIiSOjiykti.o/pQs.wPvMxQ6Fm7I6IoYN3CmLs66x9t0oSwbtEW7o7UmJEiDwGqd8p4ur1"},
		{"", "abc", 5000, "mJP3a6FyA8uCnzRtlnNypPwjnvpi5TP9qOrInzrfDmwxUQG38PkpCPdqfTb8JQfAngapMxeim4AZ..hSdRRzD."},
	} {
		if got := cryptSHA512([]byte(v.password), []byte(v.salt), v.rounds); got != v.want {
			t.Errorf("%q with %q, %d rounds:\ngot  %s\nwant %s", v.password, v.salt, v.rounds, got, v.want)
		}
	}
}

func TestCryptSHA512CutsTheSalt(t *testing.T) {
	const want = "$6$saltstringsaltst$"
	got := CryptSHA512("x", "saltstringsaltstring")
	if got[:len(want)] != want || got != CryptSHA512("x", "saltstringsaltst") || len(got) != len(want)+86 {
		t.Errorf("got %s", got)
	}
}
