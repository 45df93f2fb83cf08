package plan_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// failure is a way in which requests do not reach PVE, or are not answered by it, or are refused by it.
type failure struct {
	noConnection error       // of the dialer
	raw          string      // in place of TLS
	tls          *tls.Config // of a server that the provider is not to trust
	status       int         // of an answer; 0 with none of the above: the answer is lost
	reason       string
	header, body string

	said      string // PVE's own words; "": it said nothing
	step      string // words of the next step that no other failure has
	writeStep string // the same where a write was hit, if it is another one
}

// failures are all of them, with their next steps. The provider trusts one authority.
func failures(t *testing.T, host string, known *authority) map[string]*failure {
	t.Helper()
	other, now := newAuthority(t), time.Now()
	const page = "<html><body><h1>Sorry</h1></body></html>"
	const direct, proxyLog, admit = "correct the endpoint's scheme", "look at its log", "have it admit this machine"
	refused := func(reason string) string { return fmt.Sprintf(`{"data":null,"message":%q}`, reason+"\n") }
	return map[string]*failure{
		"no such host": {noConnection: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}, step: "correct the host in the endpoint"},
		"silent name server": {noConnection: &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true},
			step: "The name server of this machine"},
		"refused connection": {noConnection: os.NewSyscallError("connect", syscall.ECONNREFUSED), step: "correct the host and the port in the endpoint"},
		"no route":           {noConnection: os.NewSyscallError("connect", syscall.EHOSTUNREACH), step: "the route from this machine"},
		"silent host":        {noConnection: os.ErrDeadlineExceeded, step: "the route from this machine"},
		"no TLS":             {raw: "HTTP/1.1 400 Bad Request\r\n\r\n", step: "speaks no TLS"},
		"unknown authority":  {tls: other.config(t, host, now.Add(time.Hour)), step: "PROXMOX_VE_CA_CERTIFICATE"},
		"name of another":    {tls: known.config(t, "pve.example.com", now.Add(time.Hour)), step: "that is in the server's certificate"},
		"expired":            {tls: known.config(t, host, now.Add(-time.Hour)), step: "pvecm updatecerts"},
		"lost answer":        {step: "check that the node is up and that the endpoint is right", writeStep: "Terraform again"},

		"401":               {status: 401, reason: "Authentication failed!", said: "Authentication failed!", step: "PROXMOX_VE_API_TOKEN"},
		"401 of a proxy":    {status: 401, reason: "Unauthorized", header: "WWW-Authenticate: Basic\r\n", step: admit},
		"403":               {status: 403, reason: "Forbidden", body: refused("Permission check failed (/, Sys.Audit)"), said: "Permission check failed (/, Sys.Audit)", step: "give the identity of the provider the privilege"},
		"403 of a firewall": {status: 403, reason: "Forbidden", body: page, step: admit},
		"404":               {status: 404, reason: "Not Found", body: page, step: direct},
		"400": {status: 400, reason: "Parameter verification failed.", body: `{"data":null,"errors":{"foo":"property is not defined in schema"}}`,
			said: "Parameter verification failed. foo: property is not defined in schema"},
		"400 of a proxy":      {status: 400, reason: "Bad Request", body: `{"message":"no","errors":{"foo":"bar"}}`, step: direct},
		"500":                 {status: 500, reason: "Internal", body: refused("unable to open file"), said: "unable to open file"},
		"500 of a proxy":      {status: 500, reason: "Internal Server Error", body: page, step: proxyLog},
		"502":                 {status: 502, reason: "Bad Gateway", body: page, step: proxyLog},
		"503":                 {status: 503, reason: "Service Unavailable", step: proxyLog},
		"504":                 {status: 504, reason: "Gateway Time-out", body: page, step: proxyLog},
		"429":                 {status: 429, reason: "Too Many Requests", body: "slow down", step: proxyLog},
		"redirect":            {status: http.StatusFound, reason: "Found", header: "Location: https://login.example.com/\r\n", step: direct},
		"login page":          {status: 200, reason: "OK", body: page, step: direct},
		"node away":           {status: 595, reason: "Connection refused", said: "Connection refused", step: "could not connect to the node"},
		"node without answer": {status: 596, reason: "Connection timed out", said: "Connection timed out", step: "gave no answer, or none within 30 seconds"},
	}
}

// occasion is the moment at which a failure begins.
type occasion string

const (
	inPlan    occasion = "plan"
	inCreate  occasion = "create"
	inRefresh occasion = "refresh"
	inUpdate  occasion = "update"
	inDestroy occasion = "destroy"
	inRead    occasion = "read"
	inInvoke  occasion = "invoke"
)

// subject is an object that a failure is told of.
type subject struct {
	typ     string
	who     rig.Identity
	base    flat  // of a resource
	changed flat  // nil: it is not changed in place
	asked   asked // a data source or an action
}

// diagnosisRow is one failure that hits an object on an occasion.
type diagnosisRow struct {
	subject
	at      occasion
	writes  bool // only they are hit
	failure string
}

func (r diagnosisRow) String() string {
	what := "all requests"
	if r.writes {
		what = "writes"
	}
	return fmt.Sprintf("%s, %s of %s: %s", r.typ, what, r.at, r.failure)
}

// subjects are all resources, data sources and actions.
func subjects(t *testing.T) (all []subject) {
	t.Helper()
	text := cty.StringVal
	changes := map[string]flat{"proxmox_disk": {"description": text("b")}, "proxmox_vm_snapshot": {"description": text("b")},
		"proxmox_ha_rule": {"comment": text("b")}, "proxmox_snippet": {"content": text("#cloud-config\na: 1\n")}}
	vm := flat{"vmid": cty.NumberIntVal(300), "name": text("it"), "node": text("pve1"), "disks.scsi0.storage": text("local-zfs"), "disks.scsi0.size": text("1G")}
	all = append(all, subject{typ: "proxmox_vm", base: vm, changed: vm.with("description", text("b"))})
	others := otherResources(t)
	for _, typ := range slices.Sorted(maps.Keys(others)) {
		one := subject{typ: typ, who: cmp.Or(others[typ].who, rig.RootTicket), base: others[typ].base}
		if one.base.has("vmid") && typ == "proxmox_disk" {
			one.base = one.base.with("vmid", cty.NumberIntVal(300))
		}
		if c, ok := changes[typ]; ok {
			one.changed = maps.Clone(one.base)
			maps.Copy(one.changed, c)
		}
		all = append(all, one)
	}
	for _, a := range slices.Concat(askedDataSources(t), askedActions(t)) {
		all = append(all, subject{typ: a.typ, who: rig.RootTicket, asked: a})
	}
	return all
}

func diagnosisRows(t *testing.T, all map[string]*failure) (rows []diagnosisRow) {
	t.Helper()
	for _, one := range subjects(t) {
		occasions := []occasion{inPlan, inCreate, inRefresh, inUpdate, inDestroy}
		switch {
		case strings.HasPrefix(one.asked.block, "data "):
			occasions = []occasion{inRead}
		case one.base == nil:
			occasions = []occasion{inInvoke}
		case one.changed == nil:
			occasions = []occasion{inPlan, inCreate, inRefresh, inDestroy}
		}
		for _, at := range occasions {
			for _, name := range slices.Sorted(maps.Keys(all)) {
				rows = append(rows, diagnosisRow{one, at, false, name})
				if (at == inCreate || at == inUpdate || at == inDestroy) && all[name].isAnswer() {
					rows = append(rows, diagnosisRow{one, at, true, name})
				}
			}
		}
	}
	return rows
}

// isAnswer reports whether a failure hits a request whose connection was made.
func (f *failure) isAnswer() bool { return f.noConnection == nil && f.raw == "" && f.tls == nil }

// frontHost is the host of the endpoint of a cluster in memory.
const frontHost = "pve1.pvesim.test"

// diagnosisShare: one row in so many is the share of `make test`.
const diagnosisShare = 47

// TestLawDiagnostics: whatever keeps a request from PVE, or makes PVE refuse it, each diagnostic of it calls only PVE's words
// PVE's, has the next step that fits that cause and no other one's, and is on no attribute of an object that is not its cause.
func TestLawDiagnostics(t *testing.T) {
	t.Parallel()
	known := newAuthority(t)
	all := failures(t, frontHost, known)
	rows, started := diagnosisRows(t, all), time.Now()
	drawn := func(number int, r diagnosisRow) bool { return share.Plays(number, diagnosisShare, r.String()) }
	hits := play(t, rows, drawn, func() *authority { return known }, func(known *authority, _ int, r diagnosisRow) bool {
		isHit, err := r.try(t, all, known)
		if err != nil {
			t.Errorf("%s: %v", r, err)
		}
		return isHit
	})
	tried, missed := len(hits), count(hits, false)
	t.Logf("%d rows of %d failures; %d tried, %d of them without a request, %s", len(rows), len(all), tried, missed,
		time.Since(started).Round(time.Second))
	if len(rows) < 1000 {
		t.Errorf("%d rows, want at least 1000", len(rows))
	}
}

// try lets a failure begin on the occasion of a row, and reports whether it hit a request.
func (r diagnosisRow) try(t *testing.T, all map[string]*failure, known *authority) (isHit bool, err error) {
	t.Helper()
	ctx := t.Context()
	w := worldOfOthers(t)()
	w.Change(forgetOthers)
	f := newFront(t, w, known.config(t, frontHost, time.Now().Add(time.Hour)))
	s := w.NewSession()
	who := r.who
	if who == "" {
		who = rig.TokenNoSSH
	}
	block := w.ProviderBlockAt(who, w.Sim.Endpoint(), w.Sim.CAPEM()+known.pem)
	if err := s.Configure(block, r.asked.block, variablesOf(r.asked.arguments)); err != nil {
		return false, err
	}
	configured(s, r.asked.arguments, r.asked.known)
	begin := func() { f.writesOnly.Store(r.writes); f.failure.Store(all[r.failure]) }
	address := r.typ + ".it"
	if r.base != nil {
		if err := s.SetResource(address, r.base.tree()); err != nil {
			return false, err
		}
	}
	if err := r.carryOut(ctx, s, address, begin); err != nil {
		return false, err
	}
	if f.hits.Load() == 0 {
		return false, nil
	}
	return true, r.judge(all, s.Diagnostics())
}

// carryOut goes to the occasion, where the failure begins, and through it.
func (r diagnosisRow) carryOut(ctx context.Context, s *terraformtest.Session, address string, begin func()) error {
	var options []terraformtest.PlanOption
	switch r.at {
	case inPlan, inRead:
		begin()
		_, _ = s.Plan(ctx)
		return nil
	case inInvoke:
		_, _ = s.Invoke(ctx, "action."+address, begin)
		return nil
	case inRefresh, inUpdate, inDestroy:
		if err := s.Converge(ctx); err != nil {
			return fmt.Errorf("before the failure: %w", err)
		}
	case inCreate:
	}
	switch r.at {
	case inRefresh:
		begin()
		_ = s.Refresh(ctx)
		return nil
	case inUpdate:
		if err := s.SetResource(address, r.changed.tree()); err != nil {
			return err
		}
	case inDestroy:
		options = append(options, terraformtest.ToDestroy())
	default:
	}
	pl, err := s.Plan(ctx, options...)
	if err != nil {
		return fmt.Errorf("before the failure: %w", err)
	}
	begin()
	_ = s.Apply(ctx, pl)
	return nil
}

// ofPVE finds the words that are called PVE's.
var ofPVE = regexp.MustCompile(`(?:PVE says: |PVE refused to [^:]*: )(.*)`)

// judge holds what was said to the law.
func (r diagnosisRow) judge(all map[string]*failure, said terraformtest.Diagnostics) error {
	f, text := all[r.failure], fmt.Sprint(said)
	var wrong []error
	switch {
	case len(said) == 0 && r.at == inPlan:
		return nil // the plan does without the answer
	case len(said.Errors()) == 0 && r.at != inRefresh && r.at != inPlan, len(said) == 0:
		wrong = append(wrong, errors.New("no error"))
	}
	for _, d := range said {
		if d.Attribute != "" {
			wrong = append(wrong, fmt.Errorf("it is on %s", d.Attribute))
		}
	}
	for _, words := range ofPVE.FindAllStringSubmatch(text, -1) {
		if f.said == "" || !strings.HasPrefix(words[1], f.said) && !strings.HasSuffix(f.said, words[1]) {
			wrong = append(wrong, fmt.Errorf("PVE did not say %q", words[1]))
		}
	}
	step := f.step
	if r.writes {
		step = cmp.Or(f.writeStep, step)
	}
	if !strings.Contains(text, step) {
		wrong = append(wrong, fmt.Errorf("no %q", step))
	}
	for name, other := range all {
		if other.step != f.step && other.step != "" && strings.Contains(text, other.step) {
			wrong = append(wrong, fmt.Errorf("it has the next step of %q", name))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w\n%s", errors.Join(wrong...), text)
	}
	return nil
}
