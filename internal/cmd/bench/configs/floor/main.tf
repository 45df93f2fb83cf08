resource "terraform_data" "plain" {
  count = var.plain
  input = "plain-${count.index}"
}

resource "terraform_data" "clone" {
  count = var.clones
  input = "clone-${count.index}"
}
