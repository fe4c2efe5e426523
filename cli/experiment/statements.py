"""The list that `gradwire experiment claims` prints."""
import json

# What a Statement has, and what it is called in the list.
PARTS = (("source", "place"), ("quantity", "measured"), ("rule", "confirmed if"),
         ("needs", "needs"))
WIDTH = max(len(title) for _, title in PARTS)


def statement_text(statement):
    parts = "".join(f"    {title:<{WIDTH}}  {getattr(statement, part)}\n"
                    for part, title in PARTS if getattr(statement, part))
    return f"  {statement.text} [{statement.key}]\n{parts}"


def experiment_text(experiment):
    statements = "\n".join(map(statement_text, experiment.statements))
    return f"{experiment.name}: {experiment.title}; after {experiment.source}\n\n{statements}"


def experiment_value(experiment):
    return {"experiment": experiment.name, "title": experiment.title, "source": experiment.source,
            "claims": [{"key": one.key, "text": one.text, "place": one.source,
                        "quantity": one.quantity, "confirmed_if": one.rule, "needs": one.needs}
                       for one in experiment.statements]}


def listed(experiments, as_json):
    """Returns the statements of `experiments`, as text or as JSON."""
    if as_json:
        return json.dumps([experiment_value(one) for one in experiments], indent=2,
                          ensure_ascii=False) + "\n"
    return "\n".join(map(experiment_text, experiments))
