package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/printed"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// accessDatabase is the access database of a simulated cluster.
type accessDatabase struct{ *rig.World }

// asRoot sends one request as root's token and returns the data of its answer.
func (w accessDatabase) asRoot(ctx context.Context, method, path string, params url.Values) (json.RawMessage, error) {
	query, body := "", params.Encode()
	if method == http.MethodGet {
		query, body = "?"+body, ""
	}
	request, err := http.NewRequestWithContext(ctx, method, w.Sim.Endpoint()+"/api2/json"+path+query, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "PVEAPIToken="+w.Sim.Credentials().RootToken)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	transport := &http.Transport{DialTLSContext: w.Sim.DialTLSContext, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	var told struct {
		Data    json.RawMessage
		Message string
	}
	err = json.NewDecoder(answer.Body).Decode(&told)
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s %s", method, path, answer.Status, told.Message)
	}
	return told.Data, err
}

// pveum runs a pveum command on the cluster, as root on a node does (pve-access-control CLI/pveum.pm: each command is a request).
func (w accessDatabase) pveum(ctx context.Context, words []string) error {
	commands := map[string]struct{ method, path, argument string }{
		"pveum role add": {http.MethodPost, "/access/roles", "roleid"}, "pveum role modify": {http.MethodPut, "/access/roles/", "roleid"},
		"pveum acl modify": {http.MethodPut, "/access/acl", "path"}, "pveum acl delete": {http.MethodPut, "/access/acl", "path"},
	}
	if len(words) < 4 || len(words)%2 != 0 {
		return fmt.Errorf("%q is no command of pveum", words)
	}
	command, ok := commands[strings.Join(words[:3], " ")]
	if !ok {
		return fmt.Errorf("%q is no command of pveum that is known", words)
	}
	params, path := url.Values{command.argument: {words[3]}}, command.path
	if strings.HasSuffix(path, "/") {
		path += words[3]
		params.Del(command.argument)
	}
	for i := 4; i < len(words); i += 2 {
		params.Set(strings.TrimPrefix(words[i], "--"), words[i+1])
	}
	if words[2] == "delete" {
		params.Set("delete", "1")
	}
	_, err := w.asRoot(ctx, command.method, path, params)
	return err
}

// grant gives an identity and, if it is a token, its user exactly these privileges on exactly these paths;
// those on /vms hold below, too.
func (w accessDatabase) grant(id string, privileges map[string][]string) {
	user, _, _ := strings.Cut(id, "!")
	w.Change(func(world *state.World) {
		world.ACL = slices.DeleteFunc(world.ACL, func(e state.ACLEntry) bool { return e.Subject == id || e.Subject == user })
		maps.DeleteFunc(world.Roles, func(role string, _ []string) bool { return strings.HasPrefix(role, "Exactly-") })
		for i, path := range slices.Sorted(maps.Keys(privileges)) {
			if len(privileges[path]) == 0 {
				continue
			}
			role := fmt.Sprintf("Exactly-%d", i)
			world.Roles[role] = slices.Clone(privileges[path])
			for _, subject := range slices.Compact([]string{user, id}) {
				world.ACL = append(world.ACL, state.ACLEntry{Path: path, Subject: subject, Role: role,
					Propagate: path == "/vms"})
			}
		}
	})
}

// held are the privileges of an identity on a path.
func (w accessDatabase) held(ctx context.Context, id, path string) (map[string]int, error) {
	data, err := w.asRoot(ctx, http.MethodGet, "/access/permissions", url.Values{"userid": {id}, "path": {path}})
	if err != nil {
		return nil, err
	}
	var all map[string]map[string]int
	err = json.Unmarshal(data, &all)
	return all[path], err
}

// obey runs the commands that a plan printed, in its order.
func (w accessDatabase) obey(ctx context.Context, said string) (ran int, err error) {
	for _, line := range printed.Commands(said) {
		commands, err := printed.Words(line)
		if err != nil {
			return ran, err
		}
		for _, words := range commands {
			if words[0] != "pveum" {
				continue
			}
			if err := w.pveum(ctx, words); err != nil {
				return ran, fmt.Errorf("%q fails: %w", line, err)
			}
			ran++
		}
	}
	return ran, nil
}
