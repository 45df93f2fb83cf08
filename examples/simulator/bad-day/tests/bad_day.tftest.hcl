# Run with `terraform test` against a simulator that was started with ../faults.json; `terraform init` first.

run "before" {
  module {
    source = "./look"
  }
}

# The VM is made, its start fails, and the provider takes it back.
run "a_create_that_fails" {
  module {
    source = "./attempt"
  }
  variables {
    reason = "no such luck"
  }
}

run "has_left_nothing" {
  module {
    source = "./look"
  }
  assert {
    condition     = length(output.vmids) == length(run.before.vmids)
    error_message = "The create that failed has left VMs: ${jsonencode(output.vmids)}"
  }
  assert {
    condition     = output.orphans == run.before.orphans
    error_message = "The create that failed has left ${jsonencode(output.orphans)}, before there was ${jsonencode(run.before.orphans)}"
  }
}

# The server makes the clone, and the connection breaks before it says so.
run "an_answer_that_is_lost" {
  variables {
    name = "web-1"
  }
}

run "has_made_one" {
  module {
    source = "./look"
  }
  assert {
    condition     = length(output.vmids) == length(run.before.vmids) + 1 && contains(output.vmids, run.an_answer_that_is_lost.vmid)
    error_message = "One VM was wanted, these are there: ${jsonencode(output.vmids)}"
  }
}
