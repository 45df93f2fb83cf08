package access

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/auth"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// UserRoutes are the routes of users and their tokens.
func UserRoutes() engine.Routes {
	return engine.Routes{
		"GET /access/users":                             listUsers,
		"POST /access/users":                            createUser,
		"GET /access/users/{userid}":                    readUser,
		"PUT /access/users/{userid}":                    updateUser,
		"DELETE /access/users/{userid}":                 deleteUser,
		"PUT /access/password":                          changePassword,
		"GET /access/users/{userid}/token":              listTokens,
		"GET /access/users/{userid}/token/{tokenid}":    readToken,
		"POST /access/users/{userid}/token/{tokenid}":   createToken,
		"PUT /access/users/{userid}/token/{tokenid}":    updateToken,
		"DELETE /access/users/{userid}/token/{tokenid}": deleteToken,
	}
}

// describeUser is a user as user.cfg has it. Empty fields at the end of its line are none, an address before others is
// an empty one (AccessControl.pm, parse_user_config).
func describeUser(u *state.User) map[string]any {
	data := map[string]any{"enable": perl.Flag(!u.Disabled), "expire": u.Expire}
	for key, value := range map[string]string{"firstname": u.FirstName, "lastname": u.LastName, "email": u.Email,
		"comment": u.Comment, "keys": u.Keys} {
		if value != "" || key == "email" && u.Comment+u.Keys != "" {
			data[key] = value
		}
	}
	return data
}

// changePassword is PUT /access/password (API2/AccessControl.pm, change_password; RPCEnvironment.pm,
// reauth_user_for_user_modification).
func changePassword(r *engine.Request) (any, error) {
	id := r.Params["userid"]
	_, realm, _ := strings.Cut(id, "@")
	u, confirmed := r.W.Users[id], r.Params["confirmation-password"]
	switch {
	case u == nil:
		return nil, perl.Die("no such user ('%s')", id)
	case r.Auth.User == auth.RootUser:
	case id == auth.RootUser:
		return nil, perl.Denied("")
	case confirmed == "":
		return nil, perl.Invalid("confirmation-password", "password is required to modify user")
	case r.W.Users[r.Auth.User].Password != confirmed:
		return nil, perl.Die("invalid credentials")
	case r.Auth.User != id && realm == "pam":
		return nil, perl.Denied("")
	}
	u.Password = r.Params["password"]
	return nil, nil
}

// listUsers shows every caller its own user. A caller with User.Modify or Sys.Audit on /access/groups sees all users.
func listUsers(r *engine.Request) (any, error) {
	all := r.CheckAny("/access/groups", "User.Modify", "Sys.Audit") == nil
	enabled, asked := r.Params["enabled"]
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Users)) {
		u := r.W.Users[id]
		if !all && id != r.Auth.User || asked && u.Disabled == (enabled == "1") {
			continue
		}
		row := describeUser(u)
		row["userid"] = id
		if _, realm, _ := strings.Cut(id, "@"); realm == "pam" || realm == "pve" {
			row["realm-type"] = realm
		}
		if r.Flag("full") {
			row["groups"], row["tokens"] = strings.Join(slices.Sorted(slices.Values(u.Groups)), ","), any(nil)
			if tokens := tokensOf(r, id); len(tokens) > 0 {
				row["tokens"] = tokens
			}
		}
		list = append(list, row)
	}
	return list, nil
}

func user(r *engine.Request) (*state.User, error) {
	u := r.W.Users[r.Params["userid"]]
	if u == nil {
		return nil, perl.Die("no such user ('%s')", r.Params["userid"])
	}
	return u, nil
}

func readUser(r *engine.Request) (any, error) {
	u, err := user(r)
	if err != nil {
		return nil, err
	}
	data := describeUser(u)
	data["groups"], data["tokens"] = append([]string{}, slices.Sorted(slices.Values(u.Groups))...), any(nil)
	tokens := map[string]any{}
	for id, t := range r.W.Tokens {
		if name, ok := strings.CutPrefix(id, u.ID+"!"); ok {
			tokens[name] = describeToken(t)
		}
	}
	if len(tokens) > 0 {
		data["tokens"] = tokens
	}
	return data, nil
}

// fillUser takes over what the request says of a user; a group must exist.
func fillUser(r *engine.Request, u *state.User) error {
	if v, ok := r.Params["enable"]; ok {
		u.Disabled = v == "0"
	}
	if v, ok := r.Params["expire"]; ok {
		u.Expire, _ = strconv.ParseInt(v, 10, 64) // a number, by the schema
	}
	for name, field := range map[string]*string{"firstname": &u.FirstName, "lastname": &u.LastName, "email": &u.Email,
		"comment": &u.Comment, "keys": &u.Keys} {
		if v, ok := r.Params[name]; ok {
			*field = v
		}
	}
	groups, ok := r.Params["groups"]
	if ok && !r.Flag("append") {
		u.Groups = nil
	}
	for _, group := range perl.ListItems(groups) {
		if r.W.Groups[group] == nil {
			return perl.Die("no such group '%s'", group)
		}
		if !slices.Contains(u.Groups, group) {
			u.Groups = append(slices.Clone(u.Groups), group)
		}
	}
	return nil
}

func createUser(r *engine.Request) (any, error) {
	id := r.Params["userid"]
	if r.W.Users[id] != nil {
		return nil, perl.Die("create user failed: user '%s' already exists", id)
	}
	u := &state.User{ID: id, Password: r.Params["password"]}
	if err := fillUser(r, u); err != nil {
		return nil, perl.Die("create user failed: %s", perl.OneLine(err))
	}
	r.W.Users[id] = u
	return nil, nil
}

func updateUser(r *engine.Request) (any, error) {
	u, err := user(r)
	if err != nil {
		return nil, perl.Die("update user failed: %s", perl.OneLine(err))
	}
	next := *u
	if err := fillUser(r, &next); err != nil {
		return nil, perl.Die("update user failed: %s", perl.OneLine(err))
	}
	*u = next
	return nil, nil
}

// deleteUser is content with a user that is not there (API2/User.pm, delete_user).
func deleteUser(r *engine.Request) (any, error) {
	u := r.W.Users[r.Params["userid"]]
	if u == nil {
		return nil, nil
	}
	delete(r.W.Users, u.ID)
	if u.ID == auth.RootUser { // reading the file adds root again (AccessControl.pm, userconfig_force_defaults)
		r.W.Users[auth.RootUser] = &state.User{ID: auth.RootUser, Password: u.Password}
	}
	of := func(id string) bool { return id == u.ID || strings.HasPrefix(id, u.ID+"!") }
	maps.DeleteFunc(r.W.Tokens, func(id string, _ *state.Token) bool { return of(id) })
	r.W.ACL = slices.DeleteFunc(r.W.ACL, func(e state.ACLEntry) bool { return of(e.Subject) })
	return nil, nil
}

func describeToken(t *state.Token) map[string]any {
	data := map[string]any{"privsep": perl.Flag(t.Separated), "expire": t.Expire}
	if t.Comment != "" {
		data["comment"] = t.Comment
	}
	return data
}

// tokensOf are a user's tokens with their names.
func tokensOf(r *engine.Request, user string) []any {
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Tokens)) {
		if name, ok := strings.CutPrefix(id, user+"!"); ok {
			data := describeToken(r.W.Tokens[id])
			data["tokenid"] = name
			list = append(list, data)
		}
	}
	return list
}

func listTokens(r *engine.Request) (any, error) {
	if _, err := user(r); err != nil {
		return nil, err
	}
	return tokensOf(r, r.Params["userid"]), nil
}

func readToken(r *engine.Request) (any, error) {
	t := r.W.Tokens[r.Params["userid"]+"!"+r.Params["tokenid"]]
	if t == nil {
		return nil, perl.Die("no such token '%s' for user '%s'", r.Params["tokenid"], r.Params["userid"])
	}
	return describeToken(t), nil
}

func createToken(r *engine.Request) (any, error) {
	if _, err := user(r); err != nil {
		return nil, err
	}
	id := r.Params["userid"] + "!" + r.Params["tokenid"]
	if r.W.Tokens[id] != nil {
		return nil, perl.Invalid("tokenid", "Token already exists.")
	}
	t := &state.Token{ID: id, Secret: r.W.UUID(), Separated: r.Params["privsep"] != "0"}
	info := tokenInfo(r, t)
	info["privsep"] = strconv.Itoa(perl.Flag(t.Separated))
	r.W.Tokens[id] = t
	return map[string]any{"full-tokenid": id, "value": t.Secret, "info": info}, nil
}

// tokenInfo takes over what the request says of a token, and answers it as it was said.
func tokenInfo(r *engine.Request, t *state.Token) map[string]any {
	info := map[string]any{}
	if v, ok := r.Params["comment"]; ok {
		t.Comment, info["comment"] = v, v
	}
	if v, ok := r.Params["expire"]; ok {
		t.Expire, _ = strconv.ParseInt(v, 10, 64) // a number, by the schema
		info["expire"] = v
	}
	if v, ok := r.Params["privsep"]; ok {
		t.Separated, info["privsep"] = v == "1", v
	}
	return info
}

// updateToken is PUT token: the answer is the token as it is now, what was sent as text.
func updateToken(r *engine.Request) (any, error) {
	if _, err := readToken(r); err != nil {
		return nil, err
	}
	t := r.W.Tokens[r.Params["userid"]+"!"+r.Params["tokenid"]]
	info := tokenInfo(r, t)
	data := describeToken(t)
	maps.Copy(data, info)
	return data, nil
}

func deleteToken(r *engine.Request) (any, error) {
	if _, err := readToken(r); err != nil {
		return nil, err
	}
	id := r.Params["userid"] + "!" + r.Params["tokenid"]
	delete(r.W.Tokens, id)
	r.W.ACL = slices.DeleteFunc(r.W.ACL, func(e state.ACLEntry) bool { return e.Subject == id })
	return nil, nil
}
