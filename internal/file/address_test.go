package file

import (
	"strings"
	"testing"
	"testing/synctest"
)

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

// TestAddressesThatAreNotAskedFor: an address with a key in it would stand in the access log of the node. And each question keeps a
// worker of the node busy as long as the server of the address is silent, so it is the last one after such a server.
func TestAddressesThatAreNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		addresses []string
		silent    bool
		asked     int
	}{
		"plain ones":        {[]string{"http://a.example/1.qcow2", "http://a.example/2.qcow2", "http://a.example/2.qcow2"}, false, 2},
		"with keys":         {[]string{"http://a.example/1.qcow2?sig=x", "http://me:pw@a.example/2.qcow2"}, false, 0},
		"without an answer": {[]string{"http://a.example/1.qcow2", "http://a.example/2.qcow2", "http://b.example/3.qcow2"}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := otherUpload{taskOn: "pve1", to: "pve1", polled: func(*otherRun) {}}.run(t)
				w := r.sim.World()
				w.Lock()
				w.Nodes["pve2"].Unreached = c.silent
				w.Unlock()
				r.sim.ResetOps()
				for _, address := range c.addresses {
					if found, _ := r.files.checkAddress(t.Context(), Spec{Node: "pve2", URL: address}); len(found) > 0 {
						t.Errorf("%s: %v", address, found)
					}
				}
				asked := 0
				for _, op := range r.sim.Ops() {
					if strings.HasSuffix(op.Path, "/query-url-metadata") {
						asked++
					}
				}
				if asked != c.asked {
					t.Errorf("%d questions, want %d", asked, c.asked)
				}
			})
		})
	}
}
