package terraformtest

import "fmt"

// chain are an image, a VM that is made of it and a snapshot of that VM, where the change of one comes with that of another: what is
// destroyed and made, and in which order, also where a part of it fails. All dependents of an object with create_before_destroy have it
// too: 1.17.0-dev forces it on them, 1.11 does not.
func chain() story {
	const first = "  lifecycle { create_before_destroy = true }\n"
	// The image has force, which replaces it; the VM has it as force or as opt; the snapshot has that of the VM.
	config := func(image, vm, snapshot, lifecycle string) string {
		return fmt.Sprintf("resource \"sample_gadget\" \"image\" {\n  name = \"image\"\n  %s\n}\n", image) +
			fmt.Sprintf("resource \"sample_gadget\" \"vm\" {\n  name = \"vm\"\n  %s\n%s}\n", vm, lifecycle) +
			fmt.Sprintf("resource \"sample_gadget\" \"snapshot\" {\n  name = \"snapshot\"\n  tags = [sample_gadget.vm.name]\n  %s\n%s}\n", snapshot, lifecycle)
	}
	replaced := func(n int, lifecycle string) string {
		return config(fmt.Sprintf("force = %q", fmt.Sprint(n)), "force = sample_gadget.image.force", "force = sample_gadget.vm.force", lifecycle)
	}
	updated := func(image, vm, snapshot int) string {
		return config(fmt.Sprintf("opt = %q", fmt.Sprint(image)), fmt.Sprintf("force = \"f\"\n  opt = \"%d ${sample_gadget.image.name}\"", vm),
			fmt.Sprintf("force = %q", fmt.Sprint(snapshot)), "")
	}
	s := story{name: "chain", steps: []step{
		{name: "made", config: replaced(1, "")},
		{name: "all replaced", config: replaced(2, "")},
		{name: "the image stays", config: replaced(3, ""), orders: map[string]string{"image": "delete-error"}},
		{name: "the image stays, again", config: replaced(3, "")},
		{name: "the VM stays", config: replaced(4, ""), orders: map[string]string{"vm": "delete-error"}},
		{name: "the VM stays, again", config: replaced(4, "")},
		{name: "the snapshot stays", config: replaced(5, ""), orders: map[string]string{"snapshot": "delete-error"}},
		{name: "the snapshot stays, again", config: replaced(5, "")},
		{name: "the new image fails", config: replaced(6, ""), orders: map[string]string{"image": "apply-null-error"}},
		{name: "the new image fails, again", config: replaced(6, "")},
		{name: "the setting comes", config: replaced(6, first)},
		{name: "all created before", config: replaced(7, first)},
		{name: "created before, the VM fails", config: replaced(8, first), orders: map[string]string{"vm": "apply-null-error"}},
		{name: "created before, the VM fails, again", config: replaced(8, first), unordered: true},
		{name: "created before, the old VM stays", config: replaced(9, first), orders: map[string]string{"vm": "delete-error"}},
		{name: "created before, the old VM stays, again", config: replaced(9, first), unordered: true},
		{name: "the setting goes", config: updated(1, 1, 1), unordered: true},
		{name: "the setting goes, again", config: updated(1, 1, 1), unordered: true},
		{name: "updates, and a snapshot replaced", config: updated(2, 2, 2)},
		{name: "a snapshot stays", config: updated(3, 3, 3), orders: map[string]string{"snapshot": "delete-error"}},
		{name: "a snapshot stays, again", config: updated(3, 3, 3)},
		{name: "an update fails", config: updated(4, 4, 4), orders: map[string]string{"vm": "apply-error"}},
		{name: "an update fails, again", config: updated(4, 4, 4)},
		{name: "the VM is replaced alone", config: updated(4, 4, 4), replace: []string{"sample_gadget.vm"}},
		{name: "the image is replaced alone", config: updated(4, 4, 4), replace: []string{"sample_gadget.image"}},
		{name: "image and snapshot are replaced", config: updated(4, 4, 5), replace: []string{"sample_gadget.image"}},
		{name: "destroy", destroy: true, config: updated(4, 4, 5), orders: map[string]string{"vm": "delete-error"}},
		{name: "destroy, again", destroy: true, config: updated(4, 4, 5)},
	}}
	s.cases = len(s.steps)
	for i := range s.steps {
		s.steps[i].ordered = !s.steps[i].unordered
	}
	return s
}
