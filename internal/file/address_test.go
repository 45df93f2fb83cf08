package file

import "testing"

// TestAnswerThatThereIsNoFile: only an answer that shows it counts. The words are those of libwww-perl (LWP/Protocol/http.pm
// _new_socket), which PVE hands on.
func TestAnswerThatThereIsNoFile(t *testing.T) {
	for answer, want := range map[string]bool{
		"404 Not Found":           true,
		"404 ":                    true,
		"410 Gone":                true,
		"403 Forbidden":           false,
		"405 Not Allowed":         false,
		"401 Unauthorized":        false,
		"503 Service Unavailable": false,
		"500 Can't connect to a.example:443 (404 of them)": false,
		"500 read timeout":                                                          false,
		"500 Internal Server Error":                                                 false,
		"500 Can't connect to a.example:443 (Bad hostname)":                         true,
		"500 Can't connect to 127.0.0.1:1 (Connection refused)":                     true,
		"500 Can't connect to a.example:443 (Name or service not known)":            true,
		"500 Can't connect to a.example:443 (Temporary failure in name resolution)": false,
		"500 Can't connect to a.example:443 (certificate verify failed)":            false,
		"500 Can't connect to a.example:443 (Connection timed out)":                 false,
	} {
		if is := isAbsent.MatchString("invalid server response: '" + answer + "'"); is != want {
			t.Errorf("%q: %t", answer, is)
		}
	}
	if isAbsent.MatchString("Permission check failed (404 is no status)") {
		t.Error("a refusal by PVE is no answer of the server")
	}
}
