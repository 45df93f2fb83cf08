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
		"GET /access/users/{userid}/token":              listTokens,
		"GET /access/users/{userid}/token/{tokenid}":    readToken,
		"POST /access/users/{userid}/token/{tokenid}":   createToken,
		"DELETE /access/users/{userid}/token/{tokenid}": deleteToken,
	}
}

func describeUser(u *state.User) map[string]any {
	_, realm, _ := strings.Cut(u.ID, "@")
	data := map[string]any{"userid": u.ID, "enable": perl.Flag(!u.Disabled), "expire": u.Expire, "realm-type": realm}
	for key, value := range map[string]string{"firstname": u.FirstName, "lastname": u.LastName, "email": u.Email,
		"comment": u.Comment} {
		if value != "" {
			data[key] = value
		}
	}
	return data
}

// listUsers shows every caller its own user. A caller with User.Modify or Sys.Audit on /access/groups sees all users.
func listUsers(r *engine.Request) (any, error) {
	all := r.CheckAny("/access/groups", "User.Modify", "Sys.Audit") == nil
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Users)) {
		if all || id == r.Auth.User {
			list = append(list, describeUser(r.W.Users[id]))
		}
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
	delete(data, "userid")
	delete(data, "realm-type")
	data["groups"], data["tokens"] = append([]string{}, u.Groups...), map[string]any{}
	return data, nil
}

func createUser(r *engine.Request) (any, error) {
	id := r.Params["userid"]
	if r.W.Users[id] != nil {
		return nil, perl.Die("create user failed: user '%s' already exists", id)
	}
	u := &state.User{ID: id, Password: r.Params["password"], Disabled: r.Params["enable"] == "0"}
	u.FirstName, u.LastName, u.Email, u.Comment = r.Params["firstname"], r.Params["lastname"], r.Params["email"],
		r.Params["comment"]
	u.Expire, _ = strconv.ParseInt(r.Params["expire"], 10, 64)
	r.W.Users[id] = u
	return nil, nil
}

func updateUser(r *engine.Request) (any, error) {
	u, err := user(r)
	if err != nil {
		return nil, err
	}
	if v, ok := r.Params["enable"]; ok {
		u.Disabled = v == "0"
	}
	if v, ok := r.Params["expire"]; ok {
		u.Expire, _ = strconv.ParseInt(v, 10, 64)
	}
	return nil, nil
}

func deleteUser(r *engine.Request) (any, error) {
	u, err := user(r)
	if err != nil {
		return nil, perl.Die("delete user failed: %s", perl.OneLine(err))
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
	return map[string]any{"privsep": perl.Flag(t.Separated), "expire": t.Expire}
}

func listTokens(r *engine.Request) (any, error) {
	if _, err := user(r); err != nil {
		return nil, err
	}
	list := []any{}
	for _, id := range slices.Sorted(maps.Keys(r.W.Tokens)) {
		if name, ok := strings.CutPrefix(id, r.Params["userid"]+"!"); ok {
			data := describeToken(r.W.Tokens[id])
			data["tokenid"] = name
			list = append(list, data)
		}
	}
	return list, nil
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
	t.Expire, _ = strconv.ParseInt(r.Params["expire"], 10, 64)
	r.W.Tokens[id] = t
	info := map[string]any{"privsep": strconv.Itoa(perl.Flag(t.Separated))}
	return map[string]any{"full-tokenid": id, "value": t.Secret, "info": info}, nil
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
