package conformance_test

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

// callRow is one recorded request and its result.
type callRow struct {
	N       int               `json:"n"` // place in the sequence
	Area    string            `json:"area"`
	Case    string            `json:"case"`
	As      string            `json:"as"`
	Do      string            `json:"do"`
	With    map[string]string `json:"with"`
	Status  int               `json:"status"`
	Reason  string            `json:"reason"`  // of other answers than 200 OK
	Empty   bool              `json:"empty"`   // no body at all
	Message string            `json:"message"` // if it is not the reason and a newline
	Errors  map[string]string `json:"errors"`
	Data    any               `json:"data"`
	Total   any               `json:"total"`
	Page    bool              `json:"page"` // data are the first lines of a log that is longer
	At      int               `json:"at"`   // seconds after the first task
	Type    string            `json:"type"` // of the task
	Exit    string            `json:"exit"`
	Log     []any             `json:"log"`    // page: its beginning
	Stored  map[string]any    `json:"stored"` // the options of VM 700 that the row changed, before they were put back
	After   map[string]any    `json:"after"`  // "content STORAGE vmid=N" -> volids, "config N" -> configuration or refusal
}

// conformer asks one server.
type conformer struct {
	client *plainClient
	sim    *pvesim.Sim // nil on a real server
	roles  map[string]string
	tasks  map[int]string // row -> UPID
	offset int            // what the server's VMIDs are more than the tables'
	reads  bool           // ask only what changes nothing
	served func()         // closes the HTTP server of the downloads
	t      *testing.T
}

// callTable is one recorded sequence of requests.
type callTable struct {
	name       string
	steps      func(*conformer) map[int]func() // what happened on the server before a row, or is the row
	files      string                          // what PROXMOX_VE_TEST_FILES lists where the recorded server's files are there
	spoilt     []string                        // VMIDs whose history a real cluster cannot repeat
	onlyTime   func(row int) bool              // steps that let time pass and change nothing
	repeatable func(s *conformer, row int) bool
}

func firstCalls() callTable {
	return callTable{name: "calls", steps: conformanceSteps, files: "1", onlyTime: onlyTime, repeatable: (*conformer).repeatable}
}

func conformanceCalls(t *testing.T, c *conformance, s *conformer, table callTable) {
	before := table.steps(s)
	reach := newReach(s, table)
	s.served = func() {}
	defer func() { s.served() }()
	for _, row := range conformanceTable[callRow](t, table.name+".jsonl") {
		t.Run(fmt.Sprintf("%03d %s", row.N, row.Case), func(t *testing.T) {
			s.t = t
			if s.sim == nil {
				changed := before[row.N] != nil && (!table.repeatable(s, row.N) || s.reads && !table.onlyTime(row.N))
				if why := reach.refuses(row, changed); why != "" {
					c.skip(t, table.name, row.Area, why)
				}
				if step := before[row.N]; step != nil && !table.onlyTime(row.N) {
					step()
				}
				c.judge(t, table.name, row.Area, row.N, s.call(row))
				return
			}
			if target := conformanceStart().Add(time.Duration(row.At) * time.Second); row.At > 0 {
				s.sim.Advance(target.Sub(s.sim.World().Clock.Now()))
			}
			if step := before[row.N]; step != nil {
				step()
			}
			if row.Do == "SHELL" { // the step was it; there is nothing to compare but what the rows after it show
				c.step(table.name, row.Area)
				return
			}
			ask := s.call
			if row.undoes() {
				ask = s.undone
			}
			c.judge(t, table.name, row.Area, row.N, ask(row))
		})
	}
}

var roleMark = regexp.MustCompile(`\{(task \d+|[a-z0-9.]+)\}`)

// named puts the server's own names in the place of roles.
func (s *conformer) named(text string) string {
	if s.offset != 0 {
		text = vmidMark.ReplaceAllStringFunc(text, s.shifted)
	}
	return roleMark.ReplaceAllStringFunc(text, func(mark string) string {
		if n, ok := strings.CutPrefix(mark, "{task "); ok {
			row, _ := strconv.Atoi(strings.TrimSuffix(n, "}"))
			return s.tasks[row]
		}
		if name, ok := s.roles[mark]; ok {
			return name
		}
		return mark
	})
}

// namedValue does so everywhere in a value.
func (s *conformer) namedValue(v any) any {
	switch v := v.(type) {
	case string:
		return s.named(v)
	case float64:
		return v
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = s.namedValue(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, item := range v {
			out[s.named(k)] = s.namedMember(k, item)
		}
		return out
	}
	return v
}

// call sends a row's request and says how the answer, the task and the state afterwards differ.
func (s *conformer) call(row callRow) []string {
	method, path, _ := strings.Cut(s.named(row.Do), " ")
	params := map[string]string{}
	for k, v := range row.With {
		params[k] = s.param(path, s.ownVMID(k, v))
	}
	if id := s.strange(method, path, params); id != "" {
		return []string{"not sent: VM " + id + " is not in the test range"}
	}
	if row.As == "limited" && s.client.second[0] == "" {
		var err error
		if s.client.second[0], s.client.second[1], err = s.client.ticketOf(s.t.Context(), limitedUser, limitedPassword); err != nil {
			return []string{err.Error()}
		}
	}
	a, err := s.client.do(s.t.Context(), s.identity(row), method, path, params)
	if err != nil {
		return []string{err.Error()}
	}
	if upid, ok := a.data.(string); ok && strings.HasPrefix(upid, "UPID:") {
		s.tasks[row.N] = upid
	}
	diff := s.answerDiff(row, a)
	if len(diff) == 0 && row.Type != "" {
		diff = append(diff, s.taskDiff(row)...)
	}
	for _, what := range slices.Sorted(maps.Keys(row.After)) {
		diff = append(diff, s.stateDiff(what, row.After[what])...)
	}
	return append(diff, s.invariant()...)
}

func (s *conformer) param(path, value string) string {
	switch value {
	case "{password}":
		return s.client.password
	case "{digest}":
		a, err := s.client.do(s.t.Context(), "token", "GET", path, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		config, _ := a.data.(map[string]any)
		digest, _ := config["digest"].(string)
		return digest
	}
	return s.named(value)
}

// identity tells the two requests that spoil the CSRF prevention token from the others.
func (s *conformer) identity(row callRow) string {
	if row.As == "root" && strings.Contains(row.Reason, "invalid csrf token") {
		if strings.HasPrefix(row.Case, "missing") {
			return "root without token"
		}
		return "root with wrong token"
	}
	return row.As
}

func (s *conformer) answerDiff(row callRow, a plainAnswer) []string {
	reason := "OK"
	if row.Reason != "" {
		reason = s.named(row.Reason)
	}
	if a.status != row.Status || !conformanceText(reason, a.reason) {
		return []string{fmt.Sprintf("answer: want %d %q, got %d %q %v", row.Status, reason, a.status, a.reason, a.body.Errors)}
	}
	var diff []string
	if a.empty != row.Empty {
		diff = append(diff, fmt.Sprintf("empty body: want %v, got %v", row.Empty, a.empty))
	}
	if a.closes != (row.Status >= 400) {
		diff = append(diff, fmt.Sprintf("Connection: close is %v", a.closes))
	}
	message := row.Message
	if message == "" && row.Status >= 400 && !row.Empty {
		message = reason + "\n"
	}
	if got := a.body.Message; (got == nil) != (message == "") || got != nil && !conformanceText(s.named(message), *got) {
		diff = append(diff, fmt.Sprintf("message: want %q, got %v", message, compactJSON(got)))
	}
	errs := map[string]any{}
	for k, v := range row.Errors {
		errs[k] = s.named(v)
	}
	got := map[string]any{}
	for k, v := range a.body.Errors {
		got[k] = v
	}
	diff = append(diff, objectDiff("errors", errs, got)...)
	diff = append(diff, totalDiff(row, a)...)
	data := withoutProgress(a.data)
	if want, ok := row.Data.([]any); ok && row.Page {
		data = firstPage(data, len(want))
	}
	return append(diff, conformanceDiff("data", s.namedValue(row.Data), data)...)
}

// totalDiff compares the number of lines or tasks that there are.
func totalDiff(row callRow, a plainAnswer) []string {
	if row.Total == nil && a.body.Total == nil {
		return nil
	}
	var got any
	if a.body.Total != nil {
		got = float64(*a.body.Total)
	}
	return conformanceDiff("total", row.Total, got)
}

// firstPage is the beginning of a log of which the table has no more.
func firstPage(v any, lines int) any {
	if list, ok := v.([]any); ok && lines < len(list) {
		return list[:lines]
	}
	return v
}

// progressLine is a line of a log that only says how far a copy is.
var progressLine = regexp.MustCompile(`^(drive-\w+: )?transferred |^\d+\.\d\d \w+ in \d+s$|^ *\d+K[ .]+\d+%`)

// withoutProgress drops them.
func withoutProgress(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := []any{}
	for _, item := range list {
		text, isText := item.(string)
		if m, ok := item.(map[string]any); ok && m["t"] != nil {
			text, isText = m["t"].(string)
		}
		if !isText || !progressLine.MatchString(text) {
			out = append(out, item)
		}
	}
	return out
}

// taskDiff waits for the task that the row started.
func (s *conformer) taskDiff(row callRow) []string {
	upid, ok := s.tasks[row.N]
	if !ok {
		return []string{"no task was started"}
	}
	base := s.named("/nodes/{node}/tasks/" + upid)
	var status map[string]any
	for status["status"] != "stopped" {
		a, err := s.client.do(s.t.Context(), "token", "GET", base+"/status", nil)
		if err != nil {
			return []string{err.Error()}
		}
		if status, ok = a.data.(map[string]any); !ok {
			return []string{fmt.Sprintf("status of the task: %d %s", a.status, a.reason)}
		}
		if status["status"] != "stopped" {
			s.pause(500 * time.Millisecond)
		}
	}
	var diff []string
	if status["type"] != row.Type {
		diff = append(diff, fmt.Sprintf("task type: want %s, got %v", row.Type, status["type"]))
	}
	diff = append(diff, conformanceDiff("exitstatus", s.named(row.Exit), status["exitstatus"])...)
	a, err := s.client.do(s.t.Context(), "token", "GET", base+"/log", map[string]string{"limit": "5000"})
	if err != nil {
		return append(diff, err.Error())
	}
	lines := []any{}
	list, _ := a.data.([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			lines = append(lines, m["t"])
		}
	}
	log := withoutProgress(lines)
	if row.Page {
		log = firstPage(log, len(row.Log))
	}
	return append(diff, conformanceDiff("log", s.namedValue(row.Log), log)...)
}

// pause lets time pass on the server.
func (s *conformer) pause(d time.Duration) {
	if s.sim != nil {
		s.sim.Advance(d)
		return
	}
	select {
	case <-s.t.Context().Done():
	case <-time.After(d):
	}
}

// stateDiff looks at what remained after a request.
func (s *conformer) stateDiff(what string, want any) []string {
	what = s.named(what)
	kind, rest, _ := strings.Cut(what, " ")
	switch kind {
	case "config":
		return s.configDiff(what, rest, want)
	case "pending":
		return s.pendingDiff(what, rest, want)
	case "volumes": // on all storages
		return s.volumesDiff(what, s.storages(), rest, want)
	}
	storage, query, _ := strings.Cut(rest, " ")
	params, err := url.ParseQuery(query)
	if err != nil {
		return []string{err.Error()}
	}
	return s.volumesDiff(what, []string{storage}, params.Get("vmid"), want)
}

func (s *conformer) configDiff(what, vmid string, want any) []string {
	a, err := s.client.do(s.t.Context(), "token", "GET", s.named("/nodes/{node}/qemu/"+vmid+"/config"), nil)
	if err != nil {
		return []string{err.Error()}
	}
	var got any = a.reason
	if a.status == 200 {
		got = a.data
	}
	if text, ok := want.(string); ok { // the second recording has the status in front
		want = strings.TrimPrefix(text, "500 ")
	}
	return conformanceDiff(what, s.namedValue(want), got)
}

// pendingDiff compares the options that wait for the next start.
func (s *conformer) pendingDiff(what, vmid string, want any) []string {
	waits := []any{}
	for _, item := range s.list("/nodes/{node}/qemu/"+vmid+"/pending", nil) {
		if _, ok := item["pending"]; ok || item["delete"] != nil {
			waits = append(waits, item)
		}
	}
	return conformanceDiff(what, s.namedValue(want), waits)
}

// storages are the names of all that are enabled.
func (s *conformer) storages() []string {
	var names []string
	for _, item := range s.list("/nodes/{node}/storage", map[string]string{"enabled": "1"}) {
		names = append(names, fmt.Sprint(item["storage"]))
	}
	return names
}

func (s *conformer) volumesDiff(what string, storages []string, vmid string, want any) []string {
	var volumes, expected []string
	for _, storage := range storages {
		for _, item := range s.list("/nodes/{node}/storage/"+storage+"/content", map[string]string{"vmid": vmid}) {
			volumes = append(volumes, fmt.Sprint(item["volid"]))
		}
	}
	wanted, _ := s.namedValue(want).([]any)
	for _, item := range wanted {
		expected = append(expected, fmt.Sprint(item))
	}
	slices.Sort(volumes)
	slices.Sort(expected)
	if !slices.Equal(volumes, expected) {
		return []string{fmt.Sprintf("%s: want %v, got %v", what, expected, volumes)}
	}
	return nil
}
