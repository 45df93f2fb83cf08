package pvesim

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestStandIn: a file of this machine is fetched. The stand-in takes the place of a file elsewhere, without a look at
// the network.
func TestStandIn(t *testing.T) {
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte("here"))
	}))
	t.Cleanup(here.Close)
	client := http.Client{Transport: Options{}.ForGuides().Web}
	for url, want := range map[string][]byte{here.URL: []byte("here"), "https://cloud.example.invalid/a.qcow2": StandIn(),
		"http://192.0.2.1/a.iso": StandIn()} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("%s: %s, %d bytes, %v", url, resp.Status, len(got), err)
		}
	}
}
