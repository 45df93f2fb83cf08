package rig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// RunTask sends a request as an administrator would, and awaits its task.
func RunTask(t *testing.T, w *World, path, params string) pve.TaskResult {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.Sim.Endpoint()+"/api2/json"+path,
		strings.NewReader(params))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "PVEAPIToken="+w.Sim.Credentials().RootToken)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.Sim.CAPEM()))
	transport := &http.Transport{DialContext: w.Sim.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var body struct{ Data string }
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || body.Data == "" {
		t.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
	api := APIClient(t, w)
	result, err := api.Tasks().Wait(t.Context(), pve.UPID(body.Data))
	if err != nil {
		t.Fatal(err)
	}
	if result.Log, err = api.Tasks().Log(t.Context(), pve.UPID(body.Data), 500); err != nil {
		t.Fatal(err)
	}
	return result
}
