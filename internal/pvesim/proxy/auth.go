package proxy

import (
	"regexp"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/access"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// authenticate is the authentication stage (pve-manager HTTPServer.pm, auth_handler). Its refusals are 401 with the
// text in the reason phrase only.
func authenticate(e *engine.Engine, q *httpRequest, path string) (auth.Identity, *answer) {
	who, refused := identify(e, q, path)
	// no token against forgery, so that this is asked here
	if refused == nil && q.method == "POST" && uploadPath.MatchString(path) {
		storage := uploadPath.FindStringSubmatch(path)[1]
		if err := auth.Check(e.World, who, "/storage/"+storage, []string{"Datastore.AllocateTemplate"}); err != nil {
			return who, bare(403, perl.OneLine(err))
		}
	}
	return who, refused
}

var uploadPath = regexp.MustCompile(`^/nodes/[^/]+/storage/([^/]+)/upload$`)

// identify finds out who asks.
func identify(e *engine.Engine, q *httpRequest, path string) (auth.Identity, *answer) {
	ticket, token := credentials(q)
	if isOpen(q.method, path) {
		if ticket == "" && token != "" {
			if a, err := access.VerifyToken(e, token); err == nil {
				return a, nil
			}
		}
		return auth.Identity{}, nil
	}
	if ticket == "" && token != "" {
		a, err := access.VerifyToken(e, token)
		if err != nil {
			return auth.Identity{}, bare(401, authText(e, err.Error()))
		}
		return a, nil
	}
	if ticket == "" || strings.HasPrefix(ticket, "PVE:!tfa!") {
		return auth.Identity{}, bare(401, "No ticket")
	}
	user, ok := access.VerifyTicket(e, "PVE", ticket)
	if !ok {
		return auth.Identity{}, bare(401, authText(e, "permission denied - invalid PVE ticket"))
	}
	if err := access.CheckUser(e.World, user); err != nil {
		return auth.Identity{}, bare(401, authText(e, err.Error()))
	}
	// An upload is a plain HTML form, which cannot set the header.
	if q.method != "GET" && !strings.HasSuffix(path, "/upload") &&
		!access.VerifyCSRF(e, user, q.header["csrfpreventiontoken"]) {
		return auth.Identity{}, bare(401, "Permission denied - invalid csrf token")
	}
	return auth.Identity{ID: user, User: user}, nil
}

// authText is what a refused identity is told: the detail, or since early 2026 always the same.
func authText(e *engine.Engine, detail string) string {
	if !e.World.Has(state.OneRefusalText) {
		return detail
	}
	return "Authentication failed!"
}

// isOpen lists the methods that need no credentials.
func isOpen(method, path string) bool {
	switch path {
	case "/access/domains":
		return method == "GET"
	case "/access/ticket":
		return method == "GET" || method == "POST"
	case "/access/vncticket", "/access/openid/login", "/access/openid/auth-url":
		return method == "POST"
	}
	return false
}

// credentials are the ticket and the API token of a request; the cookie wins over the header (HTTPServer.pm).
func credentials(q *httpRequest) (ticket, token string) {
	for _, part := range strings.FieldsFunc(q.header["cookie"], func(c rune) bool { return c == ';' || c == ',' }) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(part), "PVEAuthCookie="); ok {
			return unescape(v), ""
		}
	}
	header := q.header["authorization"]
	for _, keyword := range []string{"PVEAPIToken", "PVEAuthCookie"} {
		rest, ok := strings.CutPrefix(header, keyword)
		if !ok || rest == "" || rest[0] != '=' && rest[0] != ' ' {
			continue
		}
		value := unescape(strings.TrimSpace(rest[1:]))
		if keyword == "PVEAPIToken" {
			return "", value
		}
		return value, ""
	}
	return "", ""
}
