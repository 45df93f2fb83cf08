package main

import (
	"encoding/json"
)

// values converts single options that were sent to a guest, stopped or running.
func values(rows []object) ([]object, error) {
	f := newForms(rows)
	var out []object
	for _, row := range rows {
		o := object{"n": row["seq"], "option": row["option"], "status": row["status"]}
		if row.has("auth") {
			as, err := identity(row.text("auth"))
			if err != nil {
				return nil, err
			}
			o["as"] = quote(as)
		}
		o.set("sent", quote(f.roles(row.text("sent"))))
		if row.text("reason") != "Parameter verification failed." {
			o.set("reason", quote(f.string("", row.text("reason"))))
		}
		for from, to := range map[string]string{
			"errors": "errors", "stored": "stored", "also_changed": "also", "effect": "effect", "before": "before",
			"value": "value", "pending": "pending", "delete": "delete",
		} {
			if !row.has(from) {
				continue
			}
			v, err := f.value("", row[from])
			if err != nil {
				return nil, err
			}
			o[to] = v
		}
		out = append(out, o)
	}
	return out, nil
}

// privileges converts what a token may do that lacks one privilege.
func privileges(rows []object) ([]object, error) {
	f := newForms(rows)
	var out []object
	for n, row := range rows {
		index, err := json.Marshal(n)
		if err != nil {
			return nil, err
		}
		o := object{"n": index, "operation": row["operation"], "status": row["status"]}
		if row.has("method") {
			o["do"] = quote(row.text("method") + " " + f.path(row.text("path")))
		}
		if row.has("params") {
			if o["with"], err = f.params(row["params"], row.number("status")); err != nil {
				return nil, err
			}
		}
		if row.text("reason") != "OK" {
			o["reason"] = quote(f.string("", row.text("reason")))
		}
		for from, to := range map[string]string{"without": "without", "errors": "errors", "exitstatus": "exit", "items": "items", "items_with": "of"} {
			if !row.has(from) || string(row[from]) == "{}" {
				continue
			}
			v, err := f.value("", row[from])
			if err != nil {
				return nil, err
			}
			o[to] = v
		}
		out = append(out, o)
	}
	return out, nil
}
